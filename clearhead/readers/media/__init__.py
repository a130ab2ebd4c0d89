"""Read pictures and sounds: single files, arrays of many, folders of classes and manifests."""
