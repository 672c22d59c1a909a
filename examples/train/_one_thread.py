"""Import this before jax: one thread per process, so that a cpu limit is exact; CPU only."""

import os

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["NPROC"] = "1"  # the size of XLA's thread pools
os.environ["JAX_CPU_ENABLE_ASYNC_DISPATCH"] = "0"  # compute in the calling thread, not in one more
os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_cpu_multi_thread_eigen=false",
        "intra_op_parallelism_threads=1",
    ]
)
