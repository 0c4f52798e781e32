"""Files that are named as keys and are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.link.ssh.keys.key_files import KeyFileError, certificates, public_key, read_key_file


@pytest.mark.timeout(10)
def test_a_device_as_key_is_read_to_a_bound() -> None:
    zero = Path("/dev/zero")
    with pytest.raises(KeyFileError):
        read_key_file(zero).load(None)
    assert public_key(zero) is None
    assert certificates(zero, (zero,)) == []
