"""For tests of what is refused where there is no GPU."""

import pytest
import torch

needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
