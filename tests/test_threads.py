"""How OpenMP's idle threads wait: set before torch is imported, and what the user has set is kept."""

import subprocess
import sys

import pytest

from plugformer.threads import limit_spinning


def test_threads_spin_briefly():
    environment = {}
    limit_spinning(environment)
    assert environment == {"GOMP_SPINCOUNT": "20000", "KMP_BLOCKTIME": "1"}


@pytest.mark.parametrize(
    ("own", "then"),
    [
        ({"OMP_WAIT_POLICY": "ACTIVE"}, {}),
        ({"GOMP_SPINCOUNT": "7"}, {"KMP_BLOCKTIME": "1"}),
        ({"KMP_BLOCKTIME": "infinite"}, {"GOMP_SPINCOUNT": "20000"}),
    ],
)
def test_what_the_user_has_set_is_kept(own, then):
    environment = dict(own)
    limit_spinning(environment)
    assert environment == own | then


@pytest.mark.parametrize(
    "start", ["import plugformer; plugformer.load", "import plugformer.__main__ as m; m.main()"]
)
def test_it_is_set_before_torch_is_imported(start):
    """A finder that fails for torch shows what the environment holds by then."""
    code = f"""
import os, sys
for variable in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
    os.environ.pop(variable, None)
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("GOMP_SPINCOUNT"), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Finder())
sys.argv = ["plugformer", "predict", "nowhere", "text"]
{start}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["20000"]
