"""The real helm. Where it is not built its tests are skipped and say so; where CI is set they fail."""

from __future__ import annotations

import os

import pytest

from headway.lab.programs import locate

HELM = str(locate("helm") or "helm")
needs_helm = pytest.mark.skipif(
    locate("helm") is None and not os.environ.get("CI"), reason="helm is not built: headway lab build helm"
)
