"""Small environments that LeRobot finds with discover_packages_path: see `lists`."""
