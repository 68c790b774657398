"""The backend of NVIDIA GPUs: CuPy's buffers, cuBLAS, and the CUDA kernels in this folder.

``functensor.backends.get("cupy")`` loads it; nothing here is imported before.
"""

from __future__ import annotations

__all__: list[str] = []
