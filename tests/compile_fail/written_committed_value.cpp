// SPDX-License-Identifier: Apache-2.0
// A layer cannot write what it reads: a neighbour reads it too. expect: read-only|const
#include "mesh/network/layer.hpp"

void forward(const weft::mesh::ForwardArgs& args) {
#ifdef WEFT_BAD
  args.x.row(0)[0] = 1.0f;
#else
  args.y.row(0)[0] = args.x.row(0)[0];
#endif
}

int main() {}
