// SPDX-License-Identifier: Apache-2.0

#pragma once

#include "mesh/graph.hpp"

#include "kernels/op_stream.hpp"

namespace weft::mesh {

/// The columns [offset, offset + width) of every row.
inline kernels::Rows columns(kernels::Rows rows, std::size_t offset, std::size_t width) noexcept {
  return {rows.data + offset, rows.rows, width, rows.stride};
}
inline kernels::ConstRows columns(kernels::ConstRows rows, std::size_t offset, std::size_t width) noexcept {
  return {rows.data + offset, rows.rows, width, rows.stride};
}

/// Calls visit(rows of the source, its columns of the combined input): all sessions at once where a row is one token,
/// else session by session.
template <class Source, class Combined, class Visit>
void each_concatenated(const Node& node, const Edge& edge, Source source, Combined combined, const Visit& visit) {
  if (node.tokens == 1) return visit(source, columns(combined, edge.offset, edge.width));
  const std::size_t width = edge.width / node.tokens, total = node.in / node.tokens;
  for (std::size_t b = 0; b < combined.rows; ++b)
    visit(Source{source.row(b), node.tokens, width, width},
          Combined{combined.row(b) + edge.offset, node.tokens, width, total});
}

/// x = the sources of `node` combined. `source_of(edge)` gives the rows of one source.
/// @exact sources enter in source order; avg multiplies the sum by the reciprocal of their number
template <class SourceOf>
void combine_sources(kernels::OpStream& stream, const Graph& graph, const Node& node, SourceOf&& source_of,
                     kernels::Rows x) {
  const auto& edges = graph.edges();
  if (node.combine == Combine::concat) {
    for (std::uint32_t e : node.sources)
      each_concatenated(node, edges[e], kernels::ConstRows(source_of(edges[e])), x,
                        [&](const auto& source, const auto& part) { stream.copy(source, part); });
    return;
  }
  if (node.combine == Combine::gate) {
    stream.unary(kernels::Activation::sigmoid, source_of(edges[node.sources[1]]), x);
    stream.binary(kernels::BinaryOp::mul, source_of(edges[node.sources[0]]), x, x);
    return;
  }
  stream.copy(source_of(edges[node.sources[0]]), x);
  const auto op = node.combine == Combine::max ? kernels::BinaryOp::max : kernels::BinaryOp::add;
  for (std::size_t i = 1; i < node.sources.size(); ++i) stream.binary(op, x, source_of(edges[node.sources[i]]), x);
  if (node.combine == Combine::avg) stream.scale(1.0f / static_cast<float>(node.sources.size()), x, x);
}

/// dsource = the part of dLoss/dx that belongs to source `edge.position`. dx is scratch afterwards for `max`, whose
/// sources must be asked for in source order: a maximum goes to the first source that holds it.
/// `scratch` [rows, width] is needed for gate.
template <class SourceOf>
void split_gradient(kernels::OpStream& stream, const Graph& graph, const Node& node, const Edge& edge,
                    SourceOf&& source_of, kernels::ConstRows x, kernels::Rows dx, kernels::Rows scratch,
                    kernels::Rows dsource) {
  using kernels::Activation, kernels::BinaryOp;
  switch (node.combine) {
    case Combine::concat:
      return each_concatenated(node, edge, dsource, kernels::ConstRows(dx),
                               [&](const auto& source, const auto& part) { stream.copy(part, source); });
    case Combine::add:
      return stream.copy(dx, dsource);
    case Combine::avg:
      return stream.scale(1.0f / static_cast<float>(node.sources.size()), dx, dsource);
    case Combine::max:
      return stream.route_equal(source_of(edge), x, dx, dsource);
    case Combine::gate: {
      const auto value = source_of(graph.edges()[node.sources[0]]), gate = source_of(graph.edges()[node.sources[1]]);
      stream.unary(Activation::sigmoid, gate, scratch);
      if (edge.position == 0) return stream.binary(BinaryOp::mul, dx, scratch, dsource);
      stream.binary(BinaryOp::mul, dx, value, dsource);
      return stream.unary_backward(Activation::sigmoid, gate, scratch, dsource, dsource);
    }
  }
}

}  // namespace weft::mesh
