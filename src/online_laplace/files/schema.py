"""What a file of ours may hold, checked by pydantic; what it may not is said in one line."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from online_laplace.files.sealed import DamagedFileError

T = TypeVar("T")

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """Values are of the type that was written, numbers are finite, and nothing is there that is not known."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Open(Strict):
    """The same, but for names that another version may add."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)


def check(kind: type[T], value: Any) -> T:
    """The value as `kind` describes it. Raises DamagedFileError naming the first place where it is not."""
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "it"
        more = f" (and {error.error_count() - 1} more like it)" if error.error_count() > 1 else ""
        raise DamagedFileError(f"{place}: {first['msg']}{more}") from error
    except RecursionError as error:
        raise DamagedFileError("it is nested too deeply") from error
