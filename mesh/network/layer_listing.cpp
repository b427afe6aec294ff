// SPDX-License-Identifier: Apache-2.0

#include "mesh/network/layer_listing.hpp"

#include "mesh/network/layer.hpp"

#include "core/option_row.hpp"

namespace weft::mesh {

std::vector<Json> layer_listing() {
  std::vector<Json> all;
  for (const std::string& type : layer_types()) {
    const LayerDeclaration& declared = *layer_declaration(type);
    all.push_back({{"type", type},
                   {"formula", declared.formula},
                   {"takes", declared.takes},
                   {"gives", declared.gives},
                   {"is_registered", !declared.is_own},
                   {"options", to_json(declared.options)}});
  }
  return all;
}

}  // namespace weft::mesh
