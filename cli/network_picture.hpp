// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "core/coord.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft::cli {

/// A rectangle on the page, in pixels from its upper left corner.
struct Area {
  double left = 0, top = 0, width = 0, height = 0;
  double right() const noexcept { return left + width; }
  double bottom() const noexcept { return top + height; }
  double middle() const noexcept { return top + height / 2; }
};

/// A layer, a port, an output's name, or the layers of a square of places.
struct PictureBox {
  enum class Kind : int { layer, input, output, places };
  Kind kind = Kind::layer;
  Area area;
  std::vector<std::string> lines;  // written in the box
  std::string about;               // all that is told of it: shown on pointing at it, read aloud
  std::size_t color = 0;           // index into NetworkPicture::types
};

struct PictureLink {
  Area from, to;  // of the boxes at its ends
  bool is_remote = false, is_feedback = false;
  std::size_t lane = 0;  // of links that go around other boxes, so that they do not cover each other
};

/// One z of the grid.
struct PictureSlice {
  std::string title;
  Area area;
  std::vector<Area> places;  // of the grid, with a cell or without
};

/// A network laid out on a page: slices of z one below the other, in each the grid's places, x to the right and y down,
/// in each place its layers. Small networks are drawn layer by layer with their links; of others each square stands for
/// a place, or for a square of places, and is colored by the layer type that most layers there have.
struct NetworkPicture {
  std::string title;
  std::vector<std::string> facts;   // of the network, a phrase each
  std::vector<std::string> notes;   // of what the picture leaves out, a sentence each
  std::vector<std::string> types;   // layer types, by first appearance
  std::vector<std::uint64_t> uses;  // layers of each type
  std::vector<PictureSlice> slices;
  std::vector<PictureBox> boxes;
  std::vector<PictureLink> links;
  double width = 0, height = 0;
  bool is_detailed = true;
};

/// Rows that describe layers, for tables beside a picture.
struct LayerRow {
  std::string place, type, takes, gives, dtype, weights, from;
};

/// @param name  stands in for the name of a network that has none
NetworkPicture picture_of(const mesh::Graph& graph, const std::string& name);
/// Of the first layers, at most `most`.
std::vector<LayerRow> layer_rows(const mesh::Graph& graph, std::size_t most);

/// A document of its own, for browsers and office programs: colors follow the viewer's light or dark setting, and no
/// type is told by color alone.
std::string to_svg(const NetworkPicture& picture);
/// A page of its own, without scripts or anything from elsewhere: the picture, what is known of the network, and its
/// first layers as a table.
std::string to_html(const NetworkPicture& picture, const std::vector<LayerRow>& rows);
/// For Graphviz, with all layers and links, whatever their number. Source: its "DOT Language" grammar.
std::string to_dot(const mesh::Graph& graph, const std::string& name);

/// `text` with the characters that XML and HTML reserve written as references. @pre UTF-8 without C0 but line breaks
std::string xml_text(const std::string& text);

}  // namespace weft::cli
