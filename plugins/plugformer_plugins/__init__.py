"""The built-in components, a package for each kind: `attention`, `decoding`, `metric`, `optimizer`, ..."""
