"""Turn an agent's session into one valid model request that fits, keeps what matters and grows.

`__init__.pyi` lists the public names and where each one lives, for type checkers and for this file:
modules are loaded on first use, so that importing the package costs nothing.
"""

from context_assembler.lazy import lazy_names

__version__ = "0.2.0"

__all__, __getattr__ = lazy_names(__name__, __file__)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
