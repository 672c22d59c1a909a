from conftest_local import scripts

__all__ = ["scripts"]
