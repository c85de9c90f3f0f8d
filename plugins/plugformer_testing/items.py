"""What `plugformer check` has pytest collect: a test for each check of the components that it names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


class CheckItem(pytest.Item):
    """A check as a test, called `kind/name::check`."""

    def __init__(self, *, check: Any, name: str, **given: Any) -> None:
        super().__init__(name, nodeid=name, **given)
        self.check = check

    def runtest(self) -> None:
        """Runs the check."""
        self.check()

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Shows an exception from the check on, without how it was called."""
        if not isinstance(excinfo.value, pytest.fail.Exception):  # its message says all
            excinfo.traceback = excinfo.traceback.cut(path=__file__)[1:].filter(excinfo)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Returns the component in place of a file."""
        return self.config.rootpath / self.name.partition("::")[0], None, self.name


class _File(pytest.File):
    def __init__(self, *, parameters: list[Any], **given: Any) -> None:
        super().__init__(**given)
        self.parameters = parameters

    def collect(self) -> Iterator[CheckItem]:
        for parameter in self.parameters:
            item = CheckItem.from_parent(self, name=parameter.id, check=parameter.values[0])
            for mark in parameter.marks:
                item.add_marker(mark)
            yield item


class Collecting:
    """A plugin of pytest that collects parameters of `pytest.mark.parametrize`, whichever file is named."""

    def __init__(self, parameters: list[Any]) -> None:
        self.parameters = parameters

    def pytest_collect_file(self, parent: pytest.Collector, file_path: Path) -> pytest.File:
        """Returns what takes the place of the file."""
        return _File.from_parent(parent, path=file_path, parameters=self.parameters)
