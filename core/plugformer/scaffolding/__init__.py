"""What `plugformer new` writes: a small plugin of any kind, a small task of any type.

The templates beside are files that work as they stand, with stand-in names; nothing imports them.
"""

from plugformer.scaffolding.plugin import plugin_files
from plugformer.scaffolding.templates import Files, write

__all__ = ["Files", "plugin_files", "write"]
