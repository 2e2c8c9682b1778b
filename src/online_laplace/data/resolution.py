"""tmp"""


def resolution(column):
    return 0.0
