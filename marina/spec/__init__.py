"""Model specs and bundles: files of models/ to checked values.

What enters is YAML, and files of texts that it names. What leaves is a `Spec` or a `Bundle`. How they are compiled or
served is not known here.
"""

from marina.spec.model import Spec, explain, make_spec, read_spec, spec_model

__all__ = ["Spec", "explain", "make_spec", "read_spec", "spec_model"]
