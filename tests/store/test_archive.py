"""A store in one file: what is packed over, and what is unpacked."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import threading
from pathlib import Path

import pytest

from online_laplace.cli import main
from online_laplace.errors import InputError
from online_laplace.protocol.profile import Profile
from online_laplace.store.archive import pack_store, unpack_store
from online_laplace.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    Store.begin(folder, Profile("small", tables=("yacht",), procedures=("ol",), splits=1))
    (folder / "results").mkdir()
    (folder / "results" / "numbers").write_bytes(os.urandom(100_000))
    return folder


@pytest.fixture
def archive(store: Path, tmp_path: Path) -> Path:
    pack_store(store, tmp_path / "store.tar.gz")
    return tmp_path / "store.tar.gz"


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_packing_again_replaces_an_archive_and_nothing_else(store: Path, archive: Path) -> None:
    pack_store(store, archive)
    table = store.parent / "d"
    table.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="exists and was not written by online-laplace as an archive"):
        pack_store(store, table)
    assert table.read_text() == "a,b\n1,2\n"
    pack_store(store, table, force=True)
    unpack_store(table, store.parent / "again")
    assert names(store.parent / "again") == names(store)


def test_an_exported_copy_is_not_packed(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "results.json").write_text("{}")
    with pytest.raises(InputError, match=r"copy is an exported copy of an experiment.*: copy the folder"):
        pack_store(tmp_path / "copy", tmp_path / "a.tar.gz")
    assert not (tmp_path / "a.tar.gz").exists()


def test_an_archive_is_not_called_what_it_is_not(store: Path) -> None:
    for name in ("a.csv", "a.zip", "a.tar"):
        with pytest.raises(InputError, match=f"an archive is no .{name.split('.')[1]} file: name it .tar.gz"):
            pack_store(store, store.parent / name, force=True)
        assert not (store.parent / name).exists()


def test_an_archive_goes_into_a_pipe_and_not_in_its_place(store: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_bytes()), daemon=True)
    reader.start()
    pack_store(store, tmp_path / "pipe")
    reader.join(60)
    assert (tmp_path / "pipe").is_fifo() and not list(tmp_path.glob(".*.part"))
    (tmp_path / "a.tar.gz").write_bytes(read[0])
    unpack_store(tmp_path / "a.tar.gz", tmp_path / "again")
    assert names(tmp_path / "again") == names(store)


@pytest.mark.parametrize("name", ["store.json", "results/numbers", "results/new.tar.gz", "../hard"])
def test_an_archive_never_takes_the_place_of_what_it_holds(store: Path, name: str) -> None:
    os.link(store / "results" / "numbers", store.parent / "hard")
    before = names(store), (store / "store.json").read_bytes()
    with pytest.raises(InputError):
        pack_store(store, store / name, force=True)
    assert (names(store), (store / "store.json").read_bytes()) == before


def test_an_archive_is_written_through_a_link(store: Path, tmp_path: Path) -> None:
    (tmp_path / "link.tar.gz").symlink_to("real.tar.gz")
    pack_store(store, tmp_path / "link.tar.gz")
    assert (tmp_path / "link.tar.gz").is_symlink() and (tmp_path / "real.tar.gz").is_file()


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "a link to an empty folder"])
def test_a_store_is_unpacked_where_there_is_nothing(
    store: Path, archive: Path, tmp_path: Path, there: str
) -> None:
    real = target = tmp_path / "a" / "b"
    if there != "nothing":
        target.mkdir(parents=True)
    number = real.stat().st_ino if real.exists() else None
    if there == "a link to an empty folder":
        target = tmp_path / "link"
        target.symlink_to(real)
    unpack_store(archive, target)
    assert names(target) == names(store) and number in (None, real.stat().st_ino)


def bad_archive(tmp_path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    path = tmp_path / "bad.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def link(name: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, "/etc/passwd"
    return member


STRANGE = {
    "another file": tarfile.TarInfo("notes.txt"),
    "a way out": tarfile.TarInfo("results/../../notes.txt"),
    "an absolute name": tarfile.TarInfo("/tmp/notes.txt"),
    "a link": link("results/link", tarfile.SYMTYPE),
    "a hard link": link("results/link", tarfile.LNKTYPE),
    "a device": link("results/null", tarfile.CHRTYPE),
    "a pipe": link("store.json", tarfile.FIFOTYPE),
}


@pytest.mark.parametrize("case", STRANGE)
@pytest.mark.parametrize("empty", [False, True])
def test_what_is_no_part_of_a_store_is_not_unpacked(tmp_path: Path, case: str, empty: bool) -> None:
    bad_archive(tmp_path, (STRANGE[case], b""))
    if empty:
        (tmp_path / "target").mkdir()
    before = names(tmp_path)
    with pytest.raises(InputError, match=r"bad\.tar\.gz is not unpacked") as caught:
        unpack_store(tmp_path / "bad.tar.gz", tmp_path / "target")
    assert "\n" not in str(caught.value) and names(tmp_path) == before


def zeros(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        member = tarfile.TarInfo("results/zeros")
        member.size = 300 * 2**20
        file.write(member.tobuf())
        for _ in range(300):
            file.write(bytes(2**20))


def many_zeros(path: Path) -> None:
    """No file in it is large; together they are."""
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for number in range(80):
            member = tarfile.TarInfo(f"results/{number}")
            member.size = 2**20
            tar.addfile(member, io.BytesIO(bytes(2**20)))


def long_name(path: Path) -> None:
    """A header of 100 MB, which is read before any file is seen."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        member = tarfile.TarInfo("././@LongLink")
        member.type, member.size = tarfile.GNUTYPE_LONGNAME, 100 * 2**20
        file.write(member.tobuf())
        for _ in range(100):
            file.write(bytes(2**20))


@pytest.mark.parametrize("bomb", [zeros, many_zeros, long_name])
def test_an_archive_that_promises_far_more_than_a_store_is_refused(tmp_path: Path, bomb) -> None:
    bomb(tmp_path / "bomb.tar.gz")
    with pytest.raises(InputError, match=r"it holds more than \d+ MiB") as caught:
        unpack_store(tmp_path / "bomb.tar.gz", tmp_path / "target")
    assert "\n" not in str(caught.value) and names(tmp_path) == ["bomb.tar.gz"]


@pytest.mark.parametrize("keep", [0, 5, 1000, 50_000, -9, -4])
def test_a_truncated_archive_leaves_one_line_and_nothing_else(
    archive: Path, tmp_path: Path, keep: int, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    archive.write_bytes(archive.read_bytes()[:keep])
    before = names(tmp_path)
    monkeypatch.setattr(
        sys, "argv", ["online-laplace", "unpack", str(archive), str(tmp_path / "new" / "target")]
    )
    with pytest.raises(SystemExit) as ending:
        main()
    assert ending.value.code == 2 and capsys.readouterr().err.count("\n") == 1 and names(tmp_path) == before


def test_a_flipped_bit_is_found(archive: Path, tmp_path: Path) -> None:
    content = bytearray(archive.read_bytes())
    content[-5] ^= 1
    archive.write_bytes(content)
    with pytest.raises(InputError, match="cannot be unpacked"):
        unpack_store(archive, tmp_path / "target")
    assert not (tmp_path / "target").exists()


def test_a_target_that_is_taken_is_named(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match="is a file: name a folder"):
        unpack_store(archive, tmp_path / "file")
    with pytest.raises(InputError, match="is a file"):
        unpack_store(archive, archive)
    with pytest.raises(InputError, match="is not empty"):
        unpack_store(archive, tmp_path)
    assert (tmp_path / "file").read_text() == "precious"


def test_an_archive_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.tar\.gz: no such file"):
        unpack_store(tmp_path / "none.tar.gz", tmp_path / "target")
    assert names(tmp_path) == []


def test_an_archive_without_a_store_is_refused(tmp_path: Path) -> None:
    bad_archive(tmp_path, (tarfile.TarInfo("results/numbers"), b"1"))
    with pytest.raises(InputError, match=r"it holds no results: there is no store\.json"):
        unpack_store(tmp_path / "bad.tar.gz", tmp_path / "target")
    assert names(tmp_path) == ["bad.tar.gz"]
