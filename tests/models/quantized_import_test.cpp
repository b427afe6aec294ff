// SPDX-License-Identifier: Apache-2.0

#include "mesh/mesh_access.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/gguf/gguf.hpp"
#include "formats/gguf/gguf_blocks.hpp"
#include "formats/gguf/gguf_quantize.hpp"
#include "storage/durable.hpp"

#include "tests/models/imported.hpp"
#include "tests/support/temporary_directory.hpp"

namespace weft::models::quantized_import_test {
namespace {

TEST(QuantizedImport, TakesTheValuesThatBlocksStandFor) {
  const std::string source = shared_data("language/families/llama/model-f32.gguf");
  if (source.empty()) GTEST_SKIP() << "no ../shared/data";
  auto& files = storage::real_file_system();
  const auto file = formats::load_gguf(files, source);
  ASSERT_TRUE(file) << file.error().text();
  const storage::TemporaryDirectory folder;
  for (const std::string type : {"q8_0", "q4_0", "q5_1"}) {
    std::vector<ByteBuffer> blocks;
    std::vector<std::vector<float>> values;
    std::vector<formats::Tensor> small, wide;
    blocks.reserve(file->tensors().size());
    values.reserve(file->tensors().size());
    for (const formats::Tensor& tensor : file->tensors()) {
      small.push_back(tensor), wide.push_back(tensor);
      if (tensor.shape.size() != 2) continue;
      const auto quantized = formats::quantized(tensor, type);
      ASSERT_TRUE(quantized) << quantized.error().text();
      const std::size_t count = tensor.shape[0] * tensor.shape[1];
      const auto format = *formats::find_gguf_type(type);
      blocks.push_back(*collect(ByteSource(count / format.elements * format.bytes, quantized->produce)));
      values.emplace_back(count);
      ASSERT_TRUE(formats::dequantize(type, blocks.back(), values.back()));
      small.back().type = type;
      small.back().bytes = blocks.back();
      wide.back().bytes = std::as_bytes(std::span(values.back()));
    }
    const std::string of_blocks = folder.path() + "/small.gguf", of_values = folder.path() + "/wide.gguf";
    ASSERT_TRUE(storage::write_file_durably(files, of_blocks, *formats::gguf_source(file->metadata(), small)));
    ASSERT_TRUE(storage::write_file_durably(files, of_values, *formats::gguf_source(file->metadata(), wide)));
    const auto model = import_model(files, of_blocks);
    ASSERT_TRUE(model) << model.error().text();
    const std::string kept = type == "q8_0" ? "int8/block32_f16" : type == "q4_0" ? "uint4/block32_f16" : "";
    ASSERT_GE(model->notes.size(), 2u) << "the first one is of no tokenizer";
    EXPECT_EQ(model->notes.at(1),
              "weights of " + type +
                  (kept.empty() ? " become float32, which holds them exactly; --dtype makes them smaller"
                                : " keep their codes as " + kept));
    for (const mesh::LayerSpec& layer : model->graph->spec().layers)
      if (layer.type == "sequential") {
        const Dtype wanted = type == "q8_0" ? Dtype::int8 : type == "q4_0" ? Dtype::uint4 : Dtype::float32;
        EXPECT_EQ(layer.dtype, wanted);
      }
    // As float32 they have the values of the blocks, and as they are stored they decode to these.
    const ImportOptions as_floats{.encoding = Encoding(Dtype::float32)};
    const auto stored = imported_mesh(of_blocks, {});
    ASSERT_TRUE(stored) << stored.error().text();
    const auto a = imported_mesh(of_blocks, as_floats), b = imported_mesh(of_values, as_floats);
    ASSERT_TRUE(a) << a.error().text();
    ASSERT_TRUE(b) << b.error().text();
    EXPECT_EQ(to_string(a->state_hash()), to_string(b->state_hash())) << type;
    const mesh::WeightStore &codes = mesh::MeshAccess::weights(*stored), &floats = mesh::MeshAccess::weights(*b);
    for (std::size_t i = 0; i < codes.parameters().size(); ++i)
      EXPECT_EQ(codes.read(codes.parameters()[i]), floats.read(floats.parameters()[i]))
          << type << " " << codes.parameters()[i].spec->name;
    if (kept.empty()) continue;
    // Scales of float32 hold the same numbers. Matrices that no blocks are kept of become codes of their own.
    const Dtype dtype = type == "q8_0" ? Dtype::int8 : Dtype::uint4;
    const auto widened = imported_mesh(of_blocks, {.encoding = Encoding(dtype, Granularity::block32)});
    ASSERT_TRUE(widened) << widened.error().text();
    const mesh::WeightStore& by_float = mesh::MeshAccess::weights(*widened);
    std::size_t kept_blocks = 0;
    for (std::size_t i = 0; i < codes.parameters().size(); ++i) {
      if (codes.encoding_of(i) != Encoding(dtype, Granularity::block32_f16)) continue;
      EXPECT_EQ(by_float.encoding_of(i), Encoding(dtype, Granularity::block32));
      EXPECT_EQ(by_float.read(by_float.parameters()[i]), codes.read(codes.parameters()[i])) << type;
      ++kept_blocks;
    }
    EXPECT_GE(kept_blocks, 14u);
  }
}

}  // namespace
}  // namespace weft::models::quantized_import_test
