// Headers that all tests include, compiled once for this target and those that reuse it
// (PLIMSOLL_PCH).
