"""`plugformer new` writes a small plugin of any kind, or a small task of any type, from templates."""

from plugformer_scaffolding.plugin import plugin_files
from plugformer_scaffolding.templates import Files, write

__all__ = ["Files", "plugin_files", "write"]
