from conftest_gpus import gpus, nvml_library
from conftest_local import scripts

__all__ = ["gpus", "nvml_library", "scripts"]
