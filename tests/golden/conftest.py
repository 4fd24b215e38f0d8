import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer `pytest tests/golden --update-golden`: write the payloads anew, to be reviewed."""
    parser.addoption("--update-golden", action="store_true", help="rewrite the golden payloads")
