// What all tests include is compiled once, for this target and those that reuse it (PLIMSOLL_PCH).
