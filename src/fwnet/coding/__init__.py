"""Codes of whole data sets: scikit-learn estimators, and files that are coded shard by shard."""

from fwnet.coding.encode import EncodeReport, encode_file
from fwnet.coding.errors import EncodeError
from fwnet.coding.lp_coder import LpCoder
from fwnet.coding.shards import EncodeProgress

__all__ = ["EncodeError", "EncodeProgress", "EncodeReport", "LpCoder", "encode_file"]
