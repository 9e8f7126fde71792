"""Restorations: how an image is degraded, and which network undoes it."""
