"""Read images and audio: single files, arrays of many, folders of classes and manifests."""
