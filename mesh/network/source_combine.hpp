// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/network/graph.hpp"

#include "kernels/op_stream.hpp"

#include "core/shape.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace weft::mesh {

/// The columns [offset, offset + width) of every row.
inline kernels::MatrixView columns(kernels::MatrixView rows, std::size_t offset, std::size_t width) noexcept {
  return {rows.data + offset, rows.rows, width, rows.stride};
}
inline kernels::ConstMatrixView columns(kernels::ConstMatrixView rows, std::size_t offset, std::size_t width) noexcept {
  return {rows.data + offset, rows.rows, width, rows.stride};
}

/// Combination of a layer's sources, and its number of values. With concat, each of the `tokens` rows of the input
/// holds a row of every source.
struct Junction {
  Combine combine = Combine::concat;
  std::size_t sources = 0;
  std::size_t tokens = 1;
  std::size_t in = 0;
};
/// With concat: the source's columns begin at `offset` of each token; `width` values it has in all.
struct SourcePlace {
  std::size_t offset = 0, width = 0;
};

/// The shape that sources make together. `name_of(i)`, `shape_of(i)`: of source i; `key_of("from")`:
/// how errors name a key of the layer.
/// @error shape_mismatch, too_large
Result<Shape> combined_shape(Combine combine, std::size_t sources,
                             const std::function<std::string(std::size_t)>& name_of,
                             const std::function<const Shape&(std::size_t)>& shape_of,
                             const std::function<std::string(std::string_view)>& key_of);

/// Calls visit(rows of the source, its columns of the combined input): all sessions at once where a row is one token,
/// else session by session.
template <class Source, class Combined, class Visit>
void each_concatenated(const Junction& junction, const SourcePlace& place, Source source, Combined combined,
                       const Visit& visit) {
  if (junction.tokens == 1) return visit(source, columns(combined, place.offset, place.width));
  const std::size_t width = place.width / junction.tokens, total = junction.in / junction.tokens;
  for (std::size_t b = 0; b < combined.rows; ++b)
    visit(Source{source.row(b), junction.tokens, width, width},
          Combined{combined.row(b) + place.offset, junction.tokens, width, total});
}

/// x = the sources combined. `place_of(i)`, `source_of(i)`: the place and the rows of source i.
/// @exact  sources enter in source order; avg multiplies the sum by the reciprocal of their number
template <class PlaceOf, class SourceOf>
void combine_sources(kernels::OpStream& stream, const Junction& junction, const PlaceOf& place_of,
                     const SourceOf& source_of, kernels::MatrixView x) {
  if (junction.combine == Combine::concat) {
    for (std::size_t i = 0; i < junction.sources; ++i)
      each_concatenated(junction, place_of(i), kernels::ConstMatrixView(source_of(i)), x,
                        [&](const auto& source, const auto& part) {
                          stream.copy({source, part});
                        });
    return;
  }
  if (junction.combine == Combine::gate) {
    stream.unary({kernels::Activation::sigmoid, source_of(1), x});
    stream.binary({kernels::BinaryOp::mul, source_of(0), x, x});
    return;
  }
  const auto op = junction.combine == Combine::max ? kernels::BinaryOp::max : kernels::BinaryOp::add;
  if (junction.sources == 1) stream.copy({source_of(0), x});
  for (std::size_t i = 1; i < junction.sources; ++i)
    stream.binary({op, i == 1 ? kernels::ConstMatrixView(source_of(0)) : x, source_of(i), x});
  if (junction.combine == Combine::avg) stream.scale({1.0f / static_cast<float>(junction.sources), x, x});
}

/// dsource = the part of dLoss/dx that belongs to source i. dx is scratch afterwards for `max`, whose sources must be
/// asked for in source order: a maximum goes to the first source that holds it. `scratch` [rows, in] is needed for
/// gate.
template <class SourceOf>
void split_gradient(kernels::OpStream& stream, const Junction& junction, std::size_t i, const SourcePlace& place,
                    const SourceOf& source_of, kernels::ConstMatrixView x, kernels::MatrixView dx,
                    kernels::MatrixView scratch, kernels::MatrixView dsource) {
  using kernels::Activation, kernels::BinaryOp;
  switch (junction.combine) {
    case Combine::concat:
      return each_concatenated(junction, place, dsource, kernels::ConstMatrixView(dx),
                               [&](const auto& source, const auto& part) {
                                 stream.copy({part, source});
                               });
    case Combine::add:
      return stream.copy({dx, dsource});
    case Combine::avg:
      return stream.scale({1.0f / static_cast<float>(junction.sources), dx, dsource});
    case Combine::max:
      return stream.max_backward({source_of(i), x, dx, dsource});
    case Combine::gate: {
      const auto value = source_of(0), gate = source_of(1);
      stream.unary({Activation::sigmoid, gate, scratch});
      if (i == 0) return stream.binary({BinaryOp::mul, dx, scratch, dsource});
      stream.binary({BinaryOp::mul, dx, value, dsource});
      return stream.unary_backward({Activation::sigmoid, gate, scratch, dsource, dsource});
    }
  }
}

inline Junction junction_of(const Node& node) noexcept {
  return {node.combine, node.sources.size(), node.tokens, node.in};
}
/// The same for the sources of a node; `source_of(edge)` gives the rows of one.
template <class SourceOf>
void combine_sources(kernels::OpStream& stream, const Graph& graph, const Node& node, const SourceOf& source_of,
                     kernels::MatrixView x) {
  const auto edge = [&](std::size_t i) -> const Edge& { return graph.edges()[node.sources[i]]; };
  combine_sources(
      stream, junction_of(node),
      [&](std::size_t i) {
        return SourcePlace{edge(i).offset, edge(i).width};
      },
      [&](std::size_t i) { return source_of(edge(i)); }, x);
}
template <class SourceOf>
void split_gradient(kernels::OpStream& stream, const Graph& graph, const Node& node, const Edge& edge,
                    const SourceOf& source_of, kernels::ConstMatrixView x, kernels::MatrixView dx,
                    kernels::MatrixView scratch, kernels::MatrixView dsource) {
  split_gradient(
      stream, junction_of(node), edge.position, {edge.offset, edge.width},
      [&](std::size_t i) { return source_of(graph.edges()[node.sources[i]]); }, x, dx, scratch, dsource);
}

}  // namespace weft::mesh
