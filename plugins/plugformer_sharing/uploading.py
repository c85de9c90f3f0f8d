"""Publishing the files of a run: into a folder, or on the Hugging Face Hub."""

import shutil
from pathlib import Path

import plugformer
from plugformer.errors import RunError, described
from plugformer_sharing.publishing import Publication


def write(publication: Publication, folder: Path) -> None:
    """Writes the files into a new folder.

    Raises:
        RunError: The folder exists already, or cannot be written.
    """
    from plugformer.runs import replacing

    if folder.exists():
        raise RunError(f"{folder} exists already and is never overwritten: give another --to")
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        for name, content in publication.contents.items():
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, file)
            else:
                file.write_bytes(content)


def push(publication: Publication, name: str, *, private: bool) -> str:
    """Uploads the files in one commit, to a repository that is created if need be; returns its address.

    Args:
        publication: The files.
        name: The repository, `OWNER/NAME`; of the user whose token it is without `OWNER/`.
        private: Whether others cannot see a repository that is created.

    Raises:
        RunError: There is no network, no token, or no right to write there; or the name is impossible.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api = HfApi(library_name=plugformer.__name__, library_version=plugformer.__version__)
    try:
        repository = api.create_repo(name, private=private or None, exist_ok=True)
        operations = [
            CommitOperationAdd(path, content if isinstance(content, bytes) else str(content))
            for path, content in publication.contents.items()
        ]
        api.create_commit(repository.repo_id, operations, commit_message="Upload a Plugformer run")
    except HFValidationError as error:
        raise RunError(f"{name!r} is no name on the Hub: {error}; write OWNER/NAME") from error
    except HfHubHTTPError as error:
        if error.response is not None and error.response.status_code in (401, 403):
            words = "log in with `hf auth login`, or set HF_TOKEN, with a token that may write there"
            raise RunError(f"the Hub refuses {name}: {described(error)}\n  {words}") from error
        raise RunError(f"the Hub refuses {name}: {described(error)}") from error
    except Exception as error:
        if not _is_network(error):
            raise
        words = f"the Hub cannot be reached: {described(error)}"
        raise RunError(f"{words}\n  publish into a folder with --to DIR, and upload it later") from error
    return str(repository)


def _is_network(error: Exception) -> bool:
    """Returns whether the client of huggingface_hub, which differs by its version, has no connection."""
    return isinstance(error, OSError) or type(error).__module__.partition(".")[0].startswith(
        ("httpx", "requests")
    )
