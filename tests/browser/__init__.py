"""The viewer in a real browser. Skipped where there is none; MAGE_BROWSER_TESTS=required makes that a failure."""
