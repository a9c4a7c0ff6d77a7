"""How setuptools compiles: the sources of an extension on all cores, not one after another."""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from setuptools.command.build_ext import build_ext


class BuildOnAllCores(build_ext):
    """The command that pyproject.toml names; read by setuptools alone."""

    def build_extensions(self) -> None:
        """Compile and link all extensions."""
        compile_some = self.compiler.compile

        def compile_all(sources: list[str], *rest: Any, **options: Any) -> list[str]:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                found = pool.map(lambda each: compile_some([each], *rest, **options), sources)
                return [path for paths in found for path in paths]

        self.compiler.compile = compile_all
        super().build_extensions()
