pub(super) fn x() {}
