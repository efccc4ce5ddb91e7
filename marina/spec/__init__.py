"""Model specs and bundles: files of models/ to checked values.

The input is YAML, and the files of texts that it names. The output is a `Spec` or a `Bundle`. This package does not
know how they are compiled or served.
"""

from marina.spec.model import Spec, explain, make_spec, read_spec, spec_model

__all__ = ["Spec", "explain", "make_spec", "read_spec", "spec_model"]
