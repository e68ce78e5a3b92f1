"""WebShop: a catalogue of products, a search over it, its pages, reward and players."""
