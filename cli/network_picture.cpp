// SPDX-License-Identifier: Apache-2.0

#include "cli/network_picture.hpp"

#include "cli/text_format.hpp"

#include "core/printable.hpp"
#include "core/shape.hpp"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

namespace weft::cli {
namespace {

constexpr std::size_t kDetailedLayers = 400;  // drawn layer by layer
constexpr std::size_t kDrawnLinks = 3000;     // between squares; more would cover them
constexpr std::size_t kSquares = 128;         // columns and rows of squares in a slice
constexpr std::size_t kSlices = 32;
constexpr double kMargin = 24, kTitle = 34, kPlaceGap = 10;
constexpr double kBoxWidth = 138, kTextLine = 15, kBoxHeight = 3 * kTextLine + 10, kColumnGap = 58, kRowGap = 42;
constexpr double kPort = 96, kPortHeight = 26;

std::uint64_t weights_of(const mesh::Node& node) {
  std::uint64_t weights = 0;
  for (const mesh::ParameterSpec& p : node.layer->parameters()) weights += p.out * std::max<std::uint64_t>(p.in, 1);
  return weights;
}

std::string dtype_text(const mesh::Node& node) {
  for (const mesh::ParameterSpec& p : node.layer->parameters())
    if (p.is_matrix() && node.encoding_of(p) != node.encoding) return "mixed";
  std::string text(name(node.encoding.dtype));
  if (has_scale(node.encoding.dtype)) text += "/" + std::string(name(node.encoding.granularity));
  return text;
}

std::string activation_name(const mesh::LayerSpec& layer) {
  const auto found = layer.options.find("activation");
  const auto* const text = found == layer.options.end() ? nullptr : std::get_if<std::string>(&found->second);
  return text && *text != layer.type ? *text : "";
}

std::string place_text(const mesh::Node& node) {
  return node.is_port() ? "input " + escaped(node.port) : to_string(node.at);
}

std::string source_names(const mesh::Graph& graph, const mesh::Node& node) {
  constexpr std::size_t kMost = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(node.sources.size(), kMost); ++i)
    text += (i ? ", " : "") + place_text(graph.nodes()[graph.edges()[node.sources[i]].from]);
  if (node.sources.size() > kMost) text += " and " + grouped(node.sources.size() - kMost) + " more";
  return text;
}

/// Lays a graph out. A picture is made once, from first to last step.
class Layout {
 public:
  Layout(const mesh::Graph& graph, NetworkPicture& picture) : graph_(graph), picture_(picture) {}

  void make() {
    name_types();
    const std::size_t layers = graph_.nodes().size() - graph_.port_count();
    picture_.is_detailed = layers <= kDetailedLayers;
    if (picture_.is_detailed)
      lay_out_layers();
    else
      lay_out_squares();
    state_facts();
  }

 private:
  const mesh::Node& node(mesh::NodeId id) const { return graph_.nodes()[id]; }
  mesh::NodeId first() const { return static_cast<mesh::NodeId>(graph_.port_count()); }
  mesh::NodeId end() const { return static_cast<mesh::NodeId>(graph_.nodes().size()); }

  void name_types() {
    std::map<std::string, std::size_t> seen;
    colors_.resize(end());
    for (mesh::NodeId id = first(); id < end(); ++id) {
      const auto [at, is_new] = seen.try_emplace(graph_.layer_spec(id).type, seen.size());
      if (is_new) picture_.types.push_back(at->first), picture_.uses.push_back(0);
      colors_[id] = at->second;
      ++picture_.uses[at->second];
    }
  }

  /// The description of a layer.
  std::string about(mesh::NodeId id) const {
    const mesh::Node& n = node(id);
    const std::string activation = activation_name(graph_.layer_spec(id));
    std::string text = to_string(n.at) + " " + graph_.layer_spec(id).type;
    if (!activation.empty()) text += " " + activation;
    text += "\ntakes " + to_string(n.layer->in_shape()) + ", gives " + to_string(n.layer->out_shape());
    text += "\n" + dtype_text(n) + ", " + grouped(weights_of(n)) + " weights";
    if (n.is_frozen) text += ", frozen";
    if (graph_.is_in_loop(id)) text += "\nin a feedback loop";
    return text + "\nfrom " + source_names(graph_, n);
  }

  // Layer by layer.

  void lay_out_layers() {
    const GridShape& grid = graph_.spec().grid;
    find_used_columns();
    const bool has_inputs = graph_.port_count() > 0;
    const double left = kMargin + (has_inputs ? kPort + kColumnGap : 0);
    // Height of a row of places: that of its fullest one.
    std::map<std::pair<std::size_t, std::size_t>, std::size_t> most;  // (z, y) -> layers in a place
    std::map<std::size_t, std::size_t> in_cell;
    for (mesh::NodeId id = first(); id < end(); ++id) {
      std::size_t& high = most[{node(id).at.z, node(id).at.y}];
      high = std::max(high, ++in_cell[node(id).cell]);
    }
    double top = kMargin + kTitle;
    std::map<std::pair<std::size_t, std::size_t>, double> tops;
    std::size_t slice_of = SIZE_MAX;
    for (const auto& [row, layers] : most) {
      if (row.first != slice_of) begin_slice(slice_of = row.first, left, top, grid.z > 1);
      tops[row] = top;
      const double high = kPlaceGap + static_cast<double>(layers) * (kBoxHeight + kPlaceGap);
      for (std::size_t column = 0; column < columns_.size(); ++column)
        picture_.slices.back().places.push_back({column_left(left, column), top, kBoxWidth + 2 * kPlaceGap, high});
      top += high + kRowGap;
      picture_.slices.back().area.height = top - kRowGap + kPlaceGap - picture_.slices.back().area.top;
    }
    place_layers(left, tops);
    picture_.height = top - kRowGap + kMargin + kPlaceGap;
    picture_.width =
        left + static_cast<double>(columns_.size()) * (kBoxWidth + 2 * kPlaceGap + kColumnGap) - kColumnGap + kMargin;
    place_ports();
    add_links();
  }

  void find_used_columns() {
    for (mesh::NodeId id = first(); id < end(); ++id) columns_.push_back(node(id).at.x);
    std::ranges::sort(columns_);
    const auto unused = std::ranges::unique(columns_);
    columns_.erase(unused.begin(), unused.end());
    if (columns_.size() < graph_.spec().grid.x)
      picture_.notes.push_back(
          "Columns of the grid without a cell are left out: " + grouped(graph_.spec().grid.x - columns_.size()) +
          " of " + grouped(graph_.spec().grid.x) + ".");
  }

  static double column_left(double left, std::size_t column) {
    return left + static_cast<double>(column) * (kBoxWidth + 2 * kPlaceGap + kColumnGap);
  }

  void begin_slice(std::size_t z, double left, double& top, bool is_titled) {
    if (is_titled) top += kTextLine;
    picture_.slices.push_back(
        {is_titled ? "z = " + std::to_string(z) : "",
         {left - kPlaceGap, top - kPlaceGap, column_left(left, columns_.size()) - left - kColumnGap + 2 * kPlaceGap, 0},
         {}});
    if (is_titled) top += kPlaceGap;
  }

  void place_layers(double left, const std::map<std::pair<std::size_t, std::size_t>, double>& tops) {
    std::map<std::size_t, std::size_t> in_cell;
    areas_.resize(end());
    for (mesh::NodeId id = first(); id < end(); ++id) {
      const mesh::Node& n = node(id);
      const auto column = static_cast<std::size_t>(std::ranges::lower_bound(columns_, n.at.x) - columns_.begin());
      const double high = static_cast<double>(in_cell[n.cell]++) * (kBoxHeight + kPlaceGap);
      areas_[id] = {column_left(left, column) + kPlaceGap, tops.at({n.at.z, n.at.y}) + kPlaceGap + high, kBoxWidth,
                    kBoxHeight};
      const std::string activation = activation_name(graph_.layer_spec(id));
      std::vector<std::string> lines{
          printable(graph_.layer_spec(id).type + (activation.empty() ? "" : " " + activation), 20),
          printable(to_string(n.layer->in_shape()) + " to " + to_string(n.layer->out_shape()), 22),
          printable(dtype_text(n) + (weights_of(n) ? ", " + grouped(weights_of(n)) : ""), 22)};
      picture_.boxes.push_back({PictureBox::Kind::layer, areas_[id], std::move(lines), about(id), colors_[id]});
    }
  }

  /// Inputs beside the first row that reads them, outputs to the right of all.
  void place_ports() {
    double next = 0;
    for (mesh::NodeId id = 0; id < first(); ++id) {
      double at = kMargin + kTitle + kPlaceGap;
      if (!node(id).readers.empty())
        at = areas_[graph_.edges()[node(id).readers.front()].to].middle() - kPortHeight / 2;
      at = std::max(at, next);
      next = at + kPortHeight + kPlaceGap;
      areas_[id] = {kMargin, at, kPort, kPortHeight};
      const std::string about = "input " + escaped(node(id).port) + "\n" + to_string(node(id).shape);
      picture_.boxes.push_back(
          {PictureBox::Kind::input, areas_[id], {printable(escaped(node(id).port), 14)}, about, 0});
    }
    picture_.height = std::max(picture_.height, next + kMargin);
    if (graph_.outputs().empty()) return;
    const double left = picture_.width - kMargin + kColumnGap;
    next = 0;
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const Area& of = areas_[graph_.outputs()[i]];
      const double at = std::max(of.middle() - kPortHeight / 2, next);
      next = at + kPortHeight + kPlaceGap;
      const std::string name = escaped(graph_.spec().outputs[i].name);
      const Area area{left, at, kPort, kPortHeight};
      picture_.boxes.push_back({PictureBox::Kind::output, area, {printable(name, 14)}, "output " + name, 0});
      picture_.links.push_back({of, area, false, false, 0});
    }
    picture_.width = left + kPort + kMargin;
    picture_.height = std::max(picture_.height, next + kMargin);
  }

  bool is_remote(const mesh::Edge& edge) const {
    if (node(edge.from).is_port()) return false;
    const Coord &a = node(edge.from).at, &b = node(edge.to).at;
    const auto far = [](auto one, auto other) { return (one > other ? one - other : other - one) > 1; };
    return far(a.z, b.z) || far(a.y, b.y) || far(a.x, b.x);
  }

  void add_links() {
    std::size_t lane = 0;
    for (const mesh::Edge& edge : graph_.edges())
      picture_.links.push_back({areas_[edge.from], areas_[edge.to], is_remote(edge), edge.is_feedback, lane++ % 5});
  }

  // Square by square.

  void lay_out_squares() {
    const GridShape& grid = graph_.spec().grid;
    const std::size_t longest = std::max<std::size_t>({grid.x, grid.y, 1});
    const std::size_t side = (longest + kSquares - 1) / kSquares;  // places a square stands for, each way
    const std::size_t columns = (grid.x + side - 1) / side, rows = (grid.y + side - 1) / side;
    const double size = std::clamp(900.0 / static_cast<double>(std::max(columns, rows)), 6.0, 22.0);
    std::map<std::tuple<std::size_t, std::size_t, std::size_t>, std::vector<mesh::NodeId>> squares;
    std::map<std::size_t, double> tops;
    for (mesh::NodeId id = first(); id < end(); ++id) {
      const Coord& at = node(id).at;
      if (tops.size() >= kSlices && !tops.contains(at.z)) {
        ++left_out_;
        continue;
      }
      tops.try_emplace(at.z);
      squares[{at.z, at.y / side, at.x / side}].push_back(id);
    }
    double top = kMargin + kTitle;
    for (auto& [z, at] : tops) {
      top += grid.z > 1 ? kTextLine : 0;
      at = top;
      const Area area{kMargin, top, static_cast<double>(columns) * size, static_cast<double>(rows) * size};
      picture_.slices.push_back({grid.z > 1 ? "z = " + std::to_string(z) : "", area, {}});
      top += area.height + kRowGap;
    }
    areas_.resize(end());
    for (const auto& [square, ids] : squares) {
      const auto& [z, row, column] = square;
      const Area area{kMargin + static_cast<double>(column) * size, tops[z] + static_cast<double>(row) * size, size - 1,
                      size - 1};
      add_square(ids, area, side);
    }
    picture_.width = std::max(2 * kMargin + static_cast<double>(columns) * size, 640.0);
    picture_.height = top - kRowGap + kMargin;
    note_squares(side, tops.size());
  }

  void add_square(const std::vector<mesh::NodeId>& ids, const Area& area, std::size_t side) {
    std::vector<std::size_t> counts(picture_.types.size());
    for (const mesh::NodeId id : ids) ++counts[colors_[id]], areas_[id] = area;
    const auto most = static_cast<std::size_t>(std::ranges::max_element(counts) - counts.begin());
    std::string text = ids.size() == 1 ? about(ids.front()) : "";
    if (ids.size() > 1) {
      text = to_string(node(ids.front()).at) + " to " + to_string(node(ids.back()).at);
      for (std::size_t type = 0; type < counts.size(); ++type)
        if (counts[type]) text += "\n" + grouped(counts[type]) + " " + picture_.types[type];
    }
    picture_.boxes.push_back({side > 1 ? PictureBox::Kind::places : PictureBox::Kind::layer, area, {}, text, most});
  }

  void note_squares(std::size_t side, std::size_t slices) {
    if (side > 1)
      picture_.notes.push_back("A square stands for " + std::to_string(side) + " x " + std::to_string(side) +
                               " places, with the color of the type that most layers there have.");
    if (left_out_)
      picture_.notes.push_back("The first " + std::to_string(slices) + " slices of z that hold layers are drawn; " +
                               grouped(left_out_) + " layers are in others.");
    if (graph_.edges().size() > kDrawnLinks || side > 1 || left_out_) {
      picture_.notes.push_back("Links are not drawn: there are " + grouped(graph_.edges().size()) + ".");
      return;
    }
    for (const mesh::Edge& edge : graph_.edges())
      if (!node(edge.from).is_port())
        picture_.links.push_back({areas_[edge.from], areas_[edge.to], is_remote(edge), edge.is_feedback, 0});
  }

  void state_facts() {
    const GridShape& grid = graph_.spec().grid;
    std::uint64_t weights = 0, cells = 0, remote = 0, feedback = 0;
    for (mesh::NodeId id = first(); id < end(); ++id) {
      weights += weights_of(node(id));
      cells += id == first() || node(id - 1).cell != node(id).cell;
    }
    for (const mesh::Edge& edge : graph_.edges()) remote += is_remote(edge), feedback += edge.is_feedback;
    picture_.facts = {
        "grid " + std::to_string(grid.z) + " x " + std::to_string(grid.y) + " x " + std::to_string(grid.x),
        counted(cells, "cell"), counted(graph_.edges().size(), "link")};
    if (remote) picture_.facts.push_back(grouped(remote) + " remote");
    if (feedback) picture_.facts.push_back(grouped(feedback) + " feedback");
    picture_.facts.push_back(counted(weights, "weight"));
    picture_.facts.push_back("settles after " + counted(graph_.settle_ticks(), "tick"));
  }

  static std::string counted(std::uint64_t count, const char* noun) {
    return grouped(count) + " " + noun + (count == 1 ? "" : "s");
  }

  const mesh::Graph& graph_;
  NetworkPicture& picture_;
  std::vector<std::size_t> colors_, columns_;
  std::vector<Area> areas_;  // of nodes
  std::uint64_t left_out_ = 0;
};

std::string title_of(const mesh::Graph& graph, const std::string& name) {
  return escaped(graph.spec().name.empty() ? name : graph.spec().name);
}

std::string dot_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out + "\"";
}

}  // namespace

NetworkPicture picture_of(const mesh::Graph& graph, const std::string& name) {
  NetworkPicture picture;
  picture.title = title_of(graph, name);
  Layout(graph, picture).make();
  return picture;
}

std::vector<LayerRow> layer_rows(const mesh::Graph& graph, std::size_t most) {
  std::vector<LayerRow> rows;
  for (auto id = static_cast<mesh::NodeId>(graph.port_count()); id < graph.nodes().size() && rows.size() < most; ++id) {
    const mesh::Node& node = graph.nodes()[id];
    rows.push_back({to_string(node.at), graph.layer_spec(id).type, to_string(node.layer->in_shape()),
                    to_string(node.layer->out_shape()), dtype_text(node), grouped(weights_of(node)),
                    source_names(graph, node)});
  }
  return rows;
}

std::string to_dot(const mesh::Graph& graph, const std::string& name) {
  std::string out = "digraph " + dot_text(title_of(graph, name)) + " {\n  rankdir=LR;\n  node [shape=box];\n";
  for (mesh::NodeId id = 0; id < graph.nodes().size(); ++id) {
    const mesh::Node& node = graph.nodes()[id];
    const std::string label = node.is_port() ? escaped(node.port) + "\n" + to_string(node.shape)
                                             : to_string(node.at) + "\n" + graph.layer_spec(id).type + "\n" +
                                                   to_string(node.layer->in_shape()) + " to " +
                                                   to_string(node.layer->out_shape()) + "\n" + dtype_text(node);
    out += "  n" + std::to_string(id) + " [label=" + dot_text(label) + (node.is_port() ? ", shape=oval];\n" : "];\n");
  }
  for (const mesh::Edge& edge : graph.edges())
    out += "  n" + std::to_string(edge.from) + " -> n" + std::to_string(edge.to) +
           (edge.is_feedback ? " [style=dashed, constraint=false];\n" : ";\n");
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    out += "  o" + std::to_string(i) + " [label=" + dot_text(escaped(graph.spec().outputs[i].name)) +
           ", shape=oval];\n  n" + std::to_string(graph.outputs()[i]) + " -> o" + std::to_string(i) + ";\n";
  return out + "}\n";
}

}  // namespace weft::cli
