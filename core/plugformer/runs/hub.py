"""Runs on the Hugging Face Hub, which `hub:NAME` or `hub:NAME@REVISION` names in place of a directory."""

from pathlib import Path

from plugformer.errors import RunError, described

HUB = "hub:"
FILES = ("*.json", "*.jsonl", "*.md", "*.safetensors", "*.yaml")
"""What is downloaded: nothing in these files can be executed."""

IGNORED = "checkpoints/*"


def located(run: Path | str) -> Path:
    """Returns the directory of a run; one on the Hub is downloaded into the cache of huggingface_hub.

    Raises:
        RunError: There is no such repository or revision, or no access to it; there is no run in it; or there
            is no network, and the run is not in the cache.
    """
    name, _, revision = str(run).removeprefix(HUB).partition("@")
    if not str(run).startswith(HUB):
        return Path(run)
    from huggingface_hub import errors, snapshot_download

    try:
        folder = snapshot_download(
            name, revision=revision or None, allow_patterns=[*FILES], ignore_patterns=IGNORED
        )
    except errors.HFValidationError as error:
        raise RunError(f"{run}: {error}; write hub:OWNER/NAME or hub:OWNER/NAME@REVISION") from error
    except errors.RevisionNotFoundError as error:
        raise RunError(f"{run}: {name} has no revision {revision!r}") from error
    except errors.RepositoryNotFoundError as error:
        words = "no such repository, or it is private; log in with `hf auth login`, or set HF_TOKEN"
        raise RunError(f"{run}: {words}") from error
    except OSError as error:
        words = "the Hub cannot be reached, and the run is not in the cache"
        raise RunError(f"{run}: {words}: {described(error.__cause__ or error)}") from error
    if not (Path(folder) / "task.yaml").is_file():
        raise RunError(f"{run} is not a run: the repository has no task.yaml")
    return Path(folder)
