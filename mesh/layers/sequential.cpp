// SPDX-License-Identifier: Apache-2.0

#include "mesh/layers/sequential.hpp"

#include "mesh/layers/container.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"

#include <string>

namespace weft::mesh {

LayerDeclaration declare_sequential() {
  return {"...",
          "as its last layer's",
          {option::layers("one after the other, each reading the one before or what its from names")}};
}

Result<std::unique_ptr<Layer>> make_sequential(const Shape& in, std::size_t out, OptionReader& options) {
  if (out != 0)
    return fail(Errc::shape_mismatch,
                options.object() + ".out: the last layer inside says how wide a sequential is; " + "leave 'out' away");
  Container::Builder builder(in, options);
  std::int32_t last = Container::kInput;
  std::size_t position = 0;
  for (const LayerSpec& layer : options.layers()) {
    WEFT_TRY(last, builder.add(layer, "layers[" + std::to_string(position++) + "]", {last}));
  }
  return builder.finish();
}

}  // namespace weft::mesh
