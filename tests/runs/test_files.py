"""Files of a run reach the disk on every platform."""

import errno
import fcntl
import os
import stat

from plugformer.runs.store import write_text


def test_what_is_flushed_is_open_for_writing(tmp_path, monkeypatch):
    """Windows refuses to flush a file that is open for reading alone."""
    fsync = os.fsync

    def like_windows(descriptor):
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        if not folder and fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", like_windows)
    write_text(tmp_path / "file", "text")
    assert (tmp_path / "file").read_text() == "text"
