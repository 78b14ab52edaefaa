"""Answers that stay the same until their files change, and are kept that long."""

from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from threading import Lock


class Kept[Value]:
    """The newest answers, by path. Any thread may ask; one lock guards what is kept, and is not
    held while a file is read."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = Lock()
        self._kept: OrderedDict[Path, tuple[object, Value]] = OrderedDict()

    def get(self, path: Path, mark: object, read: Callable[[], Value]) -> Value:
        """What `read` returned when the mark of the files was this one; an error is not kept."""
        with self._lock:
            known = self._kept.get(path)
            if known is not None and known[0] == mark:
                self._kept.move_to_end(path)
                return known[1]
        value = read()
        with self._lock:
            self._kept[path] = (mark, value)
            self._kept.move_to_end(path)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value
