"""The examples of a document: its Python in order, and what it says that they print."""

import re
from contextlib import chdir, redirect_stdout
from io import StringIO

_EXAMPLE = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", re.S)


def examples(page):
    """Each block of Python with the block behind it, or nothing where there is none."""
    return _EXAMPLE.findall(page.read_text("utf-8"))


def printed(code, folder, names):
    """What ``code`` prints, run in ``folder``; its names come from ``names`` and go there."""
    output = StringIO()
    with chdir(folder), redirect_stdout(output):
        exec(compile(code, "<example>", "exec"), names)
    return output.getvalue()
