"""Line views: painted rows, a cursor, pages of items, the screens made of them."""
