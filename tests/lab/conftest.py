"""What the tests of the lab share."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
