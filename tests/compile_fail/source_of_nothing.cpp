// SPDX-License-Identifier: Apache-2.0
// A place needs four numbers; a zero is no name of a port. expect: deleted|no matching|could not convert
#include "mesh/network/network.hpp"

weft::mesh::NetworkSpec make() {
  weft::mesh::NetworkBuilder network("x", {.x = 2});
#ifdef WEFT_BAD
  network.dense({0, 0, 1, 0}, 2).from({weft::mesh::Source(0)});
#else
  network.dense({0, 0, 1, 0}, 2).from({{0, 0, 0, 0}});
#endif
  return network.spec();
}

int main() { return make().layers.size() == 1 ? 0 : 1; }
