// SPDX-License-Identifier: Apache-2.0

#include "cli/encoding_flags.hpp"

#include "mesh/network/graph.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace weft::cli {

std::vector<std::string> granularity_names() {
  std::vector<std::string> names;
  for (const Granularity granularity : kGranularities) names.emplace_back(name(granularity));
  return names;
}

Flag add_encoding_flags(CLI::App& verb, EncodingFlags& flags) {
  std::vector<std::string> dtypes;
  for (int i = 0; i < kDtypeCount; ++i) dtypes.emplace_back(name(static_cast<Dtype>(i)));
  const Flag dtype = one_of(add_option(verb, "dtype", flags.dtype, "Numeric type of the weights"), dtypes);
  one_of(add_option(verb, "granularity", flags.granularity, "How many weights share a scale; the type's default else"),
         granularity_names());
  return dtype;
}

void add_qat_flag(CLI::App& verb, bool& qat) {
  add_flag(verb, "qat", qat, "Layers that are not float32 learn through their stored weights (\"qat\")");
}

Result<std::optional<Encoding>> read_encoding(const EncodingFlags& flags) {
  if (!flags.dtype) {
    if (flags.granularity)
      return fail(Errc::invalid_argument, "--granularity " + *flags.granularity + ": say of which type with --dtype");
    return std::optional<Encoding>();
  }
  const Dtype dtype = *parse_dtype(*flags.dtype);
  if (flags.granularity && !has_scale(dtype))
    return fail(Errc::invalid_argument,
                "--granularity " + *flags.granularity + ": " + *flags.dtype + " has no scales; leave it away");
  std::optional<Granularity> granularity;
  if (flags.granularity) {
    granularity = parse_granularity(*flags.granularity);
    if (auto fits = check_granularity(dtype, *granularity); !fits)
      return fail(std::move(fits).error().within("--granularity " + *flags.granularity));
  }
  return std::optional(Encoding(dtype, granularity));
}

std::vector<mesh::NodeId> matrix_layers(const mesh::Graph& graph) {
  std::vector<mesh::NodeId> found;
  for (mesh::NodeId id = static_cast<mesh::NodeId>(graph.port_count()); id < graph.nodes().size(); ++id) {
    const auto& parameters = graph.nodes()[id].layer->parameters();
    if (std::any_of(parameters.begin(), parameters.end(),
                    [](const auto& p) { return p.is_matrix() && !p.own.encoding; }))
      found.push_back(id);
  }
  return found;
}

Result<std::vector<mesh::NodeId>> find_layers(const mesh::Graph& graph, const std::string& place, const char* flag) {
  if (place == "*") return matrix_layers(graph);
  std::array<std::uint32_t, 4> parts{};
  const bool has_brackets = place.size() >= 2 && place.front() == '[' && place.back() == ']';
  const char *at = place.data() + has_brackets, *const end = place.data() + place.size() - has_brackets;
  bool is_place = true;
  for (std::size_t i = 0; i < parts.size() && is_place; ++i) {
    const auto read = std::from_chars(at, end, parts[i]);
    is_place = read.ec == std::errc() && (i == 3 ? read.ptr == end : read.ptr != end && *read.ptr == ',');
    at = read.ptr + (i < 3);
  }
  if (!is_place)
    return fail(Errc::invalid_argument,
                std::string(flag) + " " + place + ": is no place; give z,y,x,layer such as 0,1,0,0, or *");
  const Coord coord{parts[0], parts[1], parts[2], parts[3]};
  const auto found = graph.spec().grid.contains(coord) ? graph.find_layer(coord) : std::nullopt;
  if (!found)
    return fail(Errc::unknown_name,
                std::string(flag) + " " + place + ": no layer stands there; weft inspect lists the places");
  return std::vector<mesh::NodeId>{*found};
}

Result<mesh::LayerSpec*> find_inside(mesh::NetworkSpec& spec, const mesh::Graph& graph, const std::string& place,
                                     const char* flag) {
  constexpr std::string_view kStep = ".layers[";
  const std::size_t first = place.find(kStep);
  if (first == place.npos) return nullptr;
  WEFT_TRY(const std::vector<mesh::NodeId> nodes, find_layers(graph, place.substr(0, first), flag));
  if (place.substr(0, first) == "*")
    return fail(Errc::invalid_argument, std::string(flag) + " " + place + ": give the place of one container");
  const Coord at = graph.nodes()[nodes.front()].at;
  mesh::LayerSpec* layer = &*std::find_if(spec.layers.begin(), spec.layers.end(),
                                          [&](const mesh::LayerSpec& each) { return each.at == at; });
  for (std::size_t from = first; from < place.size();) {
    std::size_t number = 0;
    const char *const begin = place.data() + from + kStep.size(), *const end = place.data() + place.size();
    const bool is_step = place.compare(from, kStep.size(), kStep) == 0;
    const auto read =
        is_step ? std::from_chars(begin, end, number) : std::from_chars_result{begin, std::errc::invalid_argument};
    if (read.ec != std::errc() || read.ptr == end || *read.ptr != ']')
      return fail(Errc::invalid_argument,
                  std::string(flag) + " " + place + ": is no layer inside; give z,y,x,layer.layers[0] and so on");
    if (number >= layer->layers.size())
      return fail(Errc::unknown_name, std::string(flag) + " " + place + ": " + place.substr(0, from) + " holds " +
                                          std::to_string(layer->layers.size()) + " layers, numbered from 0");
    layer = &layer->layers[number];
    from = static_cast<std::size_t>(read.ptr + 1 - place.data());
  }
  return layer;
}

}  // namespace weft::cli
