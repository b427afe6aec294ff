// SPDX-License-Identifier: Apache-2.0

#include "models/export.hpp"

#include "models/import.hpp"
#include "models/internal/gguf_metadata_of.hpp"
#include "models/tensor_layout.hpp"

#include "mesh/mesh.hpp"
#include "mesh/mesh_access.hpp"
#include "mesh/persistence/entity_model.hpp"
#include "mesh/weights/weight_store.hpp"

#include "formats/entity/entity.hpp"
#include "formats/gguf/gguf.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "storage/durable.hpp"
#include "storage/file_system.hpp"

#include "core/json.hpp"
#include "core/numeric.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

namespace weft::models {
namespace {

constexpr std::string_view kKept = "model/";

/// A parameter of the network and its place in a tensor.
struct Slice {
  std::size_t parameter = 0;  // of the mesh's
  TensorLayout layout;
};
/// A tensor that is written.
struct Planned {
  std::string name;
  Dtype dtype = Dtype::float32;
  Shape shape;
  std::vector<Slice> slices;
};

/// The values of some parameters as one tensor.
std::vector<float> values_of(const mesh::WeightStore& weights, const Planned& tensor) {
  std::size_t count = 1;
  for (const std::size_t extent : tensor.shape) count *= extent;
  std::vector<float> values(count);
  const std::size_t columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  for (const Slice& slice : tensor.slices) {
    const mesh::WeightStore::Parameter& parameter = weights.parameters()[slice.parameter];
    const std::vector<float> own = weights.read(parameter);
    const std::size_t out = parameter.spec->out, in = std::max<std::size_t>(parameter.spec->in, 1);
    for (std::size_t o = 0; o < out; ++o) {
      const std::size_t row = slice.layout.row_of(out, o);
      for (std::size_t k = 0; k < in; ++k)
        values[slice.layout.is_transposed ? k * columns + row : row * columns + k] =
            own[o * in + k] - slice.layout.added;
    }
  }
  return values;
}

/// The bytes of values in a type of 16 bits, or as they are.
template <class Number>
std::vector<std::uint16_t> codes_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> codes(values.size());
  std::transform(values.begin(), values.end(), codes.begin(), [](float value) { return Number::encode(value); });
  return codes;
}
template <class Number>
bool holds_all(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return Number::decode(Number::encode(value)) == value; });
}

class Exporter {
 public:
  Exporter(storage::FileSystem& files, ExportFormat format, const std::string& out)
      : files_(files), is_gguf_(format == ExportFormat::gguf), out_(out) {}

  Result<Exported> write(const std::string& path, const std::string& described) && {
    WEFT_TRY(const formats::EntityFile weights, formats::load_entity(files_, path));
    WEFT_TRY(const formats::EntityFile file, formats::load_entity(files_, described.empty() ? path : described));
    WEFT_CHECK(read(file));
    WEFT_CHECK(load(weights));
    WEFT_CHECK(plan());
    std::vector<formats::Tensor> tensors;
    for (const Planned& planned : planned_) tensors.push_back(tensor_of(planned));
    made_.tensors = tensors.size();
    if (is_gguf_) {
      WEFT_CHECK(write_gguf(file, std::move(tensors)));
    } else {
      WEFT_CHECK(write_folder(file, std::move(tensors)));
    }
    return std::move(made_);
  }

 private:
  Status read(const formats::EntityFile& file) {
    const Json& model = file.meta()["model"];
    const Json* const name = model.is_object() ? model.find("family") : nullptr;
    family_ = name && name->is_string() ? find_family(name->text()) : nullptr;
    if (!family_)
      return fail(Errc::unsupported,
                  "holds no description of a model; only what weft import made can be exported. Of a model that has "
                  "learned since, say with --model where that file is");
    config_ = model["config"];
    ConfigReader config(config_, "meta.model.config");
    family_->describe(config, decoder_);
    if (!config.problems().empty()) return config.problems().failure(Errc::unsupported, "description");
    return {};
  }
  Status load(const formats::EntityFile& file) {
    WEFT_TRY(const mesh::NetworkSpec spec, mesh::network_of(file));
    name_ = spec.name;
    WEFT_TRY(mesh::Mesh mesh, mesh::Mesh::build(spec, {.threads = 1, .keeps_masters = false}));
    WEFT_CHECK(mesh::restore_weights(mesh, file));
    mesh_ = std::make_shared<mesh::Mesh>(std::move(mesh));
    return {};
  }

  const mesh::WeightStore& weights() const { return mesh::MeshAccess::weights(std::as_const(*mesh_)); }

  Status plan() {
    std::map<std::pair<std::uint32_t, std::string>, std::size_t> parameters;
    for (std::size_t i = 0; i < weights().parameters().size(); ++i) {
      const auto& parameter = weights().parameters()[i];
      parameters[{mesh_->graph().nodes()[parameter.node].at.z, parameter.spec->name}] = i;
    }
    std::map<std::string, std::size_t> known;
    const DecoderNetwork network = decoder_network(decoder_, name_, 1);
    for (const ParameterPlace& place : network.places) {
      const auto found = parameters.find({place.z, place.parameter});
      if (found == parameters.end() || weights().parameters()[found->second].spec->out != place.out ||
          weights().parameters()[found->second].spec->in != place.in)
        return fail(Errc::unsupported, "the network is not that of its description any more: at [" +
                                           std::to_string(place.z) + ",0,0,0] there is no '" + place.parameter + "' [" +
                                           std::to_string(place.out) + ", " + std::to_string(place.in) + "]");
      const std::size_t parameter = found->second;
      parameters.erase(found);
      const bool is_tied_head = decoder_.is_tied && place.part == "output";
      const std::string name =
          tensor_name(*family_, is_gguf_, true, is_tied_head ? "token_embd" : place.part, place.block, place.is_bias);
      const auto [at, is_new] = known.emplace(name, planned_.size());
      const TensorLayout layout = tensor_layout(*family_, is_gguf_, place);
      if (is_new) planned_.push_back({name, type_of(place, parameter), layout.shape, {}});
      planned_[at->second].slices.push_back({parameter, layout});
    }
    if (!parameters.empty())
      return fail(Errc::unsupported,
                  "the network has a part that its description does not: '" + parameters.begin()->first.second + "'");
    choose_vector_types();
    return {};
  }
  Dtype type_of(const ParameterPlace& place, std::size_t parameter) const {
    const Dtype dtype = weights().encoding(weights().parameters()[parameter].node).dtype;
    const bool is_kept = dtype == Dtype::float16 || dtype == Dtype::bfloat16;
    return place.in != 0 && is_kept ? dtype : Dtype::float32;
  }
  /// Vectors beside matrices of 16 bits are of 16 bits in the files of Hugging Face.
  void choose_vector_types() {
    Dtype most = Dtype::float32;
    for (const Planned& planned : planned_)
      if (planned.shape.size() == 2) most = planned.dtype;
    if (is_gguf_ || most == Dtype::float32) return;
    for (Planned& planned : planned_) {
      if (planned.shape.size() == 2) continue;
      const std::vector<float> values = values_of(weights(), planned);
      const bool is_held =
          most == Dtype::float16 ? holds_all<numeric::Float16>(values) : holds_all<numeric::Bfloat16>(values);
      if (is_held) planned.dtype = most;
    }
  }

  formats::Tensor tensor_of(const Planned& planned) const {
    formats::Tensor tensor{planned.name, std::string(name(planned.dtype)), planned.shape, {}};
    tensor.produce = [mesh = mesh_, planned](const ByteSource::Sink& sink) {
      const std::vector<float> values = values_of(mesh::MeshAccess::weights(std::as_const(*mesh)), planned);
      if (planned.dtype == Dtype::float32) return formats::each_part(std::as_bytes(std::span(values)), 4, sink);
      const auto codes =
          planned.dtype == Dtype::float16 ? codes_of<numeric::Float16>(values) : codes_of<numeric::Bfloat16>(values);
      return formats::each_part(std::as_bytes(std::span(codes)), 2, sink);
    };
    return tensor;
  }

  Status write_gguf(const formats::EntityFile& file, std::vector<formats::Tensor> tensors) {
    WEFT_TRY(formats::GgufMetadata metadata, internal::gguf_metadata_of(*family_, decoder_, name_));
    if (!decoder_.rope.divisors.empty()) {
      divisors_.assign(decoder_.rope.divisors.begin(), decoder_.rope.divisors.end());
      tensors.push_back(formats::make_tensor<float>("rope_freqs.weight", std::span<const float>(divisors_)));
    }
    if (file.contains("model/tokenizer.gguf")) {
      WEFT_TRY(const formats::Tensor kept, file.find("model/tokenizer.gguf"));
      ByteBuffer bytes(kept.bytes.size());
      std::copy(kept.bytes.begin(), kept.bytes.end(), bytes.begin());
      WEFT_TRY(const formats::GgufFile keys, formats::decode_gguf(storage::MappedFile(std::move(bytes)), "tokenizer"));
      for (const auto& [key, value] : keys.metadata().pairs())
        if (key.starts_with("tokenizer.")) metadata.set(key, value);
    } else {
      metadata.set("tokenizer.ggml.model", std::string("no_vocab"));
      made_.notes.emplace_back("the GGUF file has no tokenizer: that of a tokenizer.json is not converted");
    }
    WEFT_TRY(const ByteSource source, formats::gguf_source(std::move(metadata), std::move(tensors)));
    made_.bytes = source.size();
    return storage::write_file_durably(files_, out_, source);
  }

  Status write_folder(const formats::EntityFile& file, std::vector<formats::Tensor> tensors) {
    if (auto folder = files_.make_directory(out_); !folder) return fail(std::move(folder).error());
    WEFT_TRY(const ByteSource source, formats::safetensors_source(std::move(tensors), {{"format", "pt"}}));
    made_.bytes = source.size();
    Json config = config_;
    if (config.contains("is_gguf")) {
      config["architectures"] = Json::array({std::string(family_->architecture)});
      config["torch_dtype"] = "float32";
      config.erase("is_gguf");
      made_.notes.emplace_back("config.json was made from a GGUF file's metadata, which has fewer keys");
    }
    WEFT_TRY(const std::string text, write_json(config, 2));
    WEFT_CHECK(storage::write_file_durably(files_, out_ + "/config.json", ByteSource(as_bytes(text))));
    for (const formats::Tensor& tensor : file.tensors()) {
      if (!tensor.name.starts_with(kKept) || tensor.name.ends_with(".gguf")) continue;
      WEFT_TRY(const formats::Tensor kept, file.find(tensor.name));
      WEFT_CHECK(
          storage::write_file_durably(files_, out_ + "/" + tensor.name.substr(kKept.size()), ByteSource(kept.bytes)));
    }
    if (!file.contains("model/tokenizer.json"))
      made_.notes.emplace_back("the folder has no tokenizer.json: the tokenizer of a GGUF file is not converted");
    return storage::write_file_durably(files_, out_ + "/model.safetensors", source);
  }

  storage::FileSystem& files_;
  bool is_gguf_;
  std::string out_, name_;
  const Family* family_ = nullptr;
  Json config_;
  Decoder decoder_;
  std::shared_ptr<mesh::Mesh> mesh_;
  std::vector<Planned> planned_;
  std::vector<float> divisors_;
  Exported made_;
};

}  // namespace

Result<Exported> export_model(storage::FileSystem& files, const std::string& entity, ExportFormat format,
                              const std::string& out, const std::string& described) {
  auto made = Exporter(files, format, out).write(entity, described);
  if (!made && !made.error().text().starts_with(entity)) return fail(std::move(made).error().within(entity));
  return made;
}

}  // namespace weft::models
