"""`plugformer new`: what it writes, a small plugin of any kind and a small task of any type.

The templates beside are files that work as they stand, with stand-in names; nothing imports them.
"""

from plugformer_scaffolding.plugin import plugin_files
from plugformer_scaffolding.templates import Files, write

__all__ = ["Files", "plugin_files", "write"]
