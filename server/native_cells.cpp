// SPDX-License-Identifier: Apache-2.0
// Cells: pictures of all, lists of those that stand out, and one in full.

#include "agent/agent_command.hpp"
#include "server/heat_map.hpp"
#include "server/internal/native_call.hpp"
#include "server/native_api.hpp"
#include "server/values.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/cell.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/dtype.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace weft::server {
namespace {

using internal::answer_of;
using internal::MeshPointer;

constexpr std::size_t kMostOutputs = 1024;  // of one cell in an answer
constexpr std::size_t kMostLinks = 64;

Json place_json(Coord at, bool has_layer) {
  Json place = Json::array({at.z, at.y, at.x});
  if (has_layer) place.push_back(at.l);
  return place;
}

/// Formats a frame of cells; called on the connection's thread.
using Draw = HttpResponse (*)(const CellQuery&, const CellPlaces&, const CellFrame&, const mesh::Mesh&);

HttpResponse heat_map_response(const CellQuery& query, const CellPlaces& places, const CellFrame& frame,
                               const mesh::Mesh& mesh) {
  HttpResponse response;
  response.content_type = "application/octet-stream";
  std::vector<float> made;
  response.body = draw_heat_map(query, places, frame.tick, cell_values(query.metric, frame, mesh.registry(), made));
  return response;
}

/// The cells with the most of a metric, by its magnitude.
HttpResponse list_response(const CellQuery& query, const CellPlaces& places, const CellFrame& frame,
                           const mesh::Mesh& mesh) {
  std::vector<float> made;
  const std::span<const float> values = cell_values(query.metric, frame, mesh.registry(), made);
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(std::min(query.most, order.size()));
  std::partial_sort(order.begin(), end, order.end(), [&](std::size_t a, std::size_t b) {
    const float left = std::fabs(values[a]), right = std::fabs(values[b]);
    return left != right ? left > right : a < b;
  });
  Json rows = Json::array();
  for (auto each = order.begin(); each != end; ++each) {
    const auto& cell = *mesh::MeshAccess::cells(mesh)[*each];
    const mesh::NodeId last = cell.first() + cell.layers() - 1;
    const mesh::Node& node = mesh.graph().nodes()[last];
    const actors::ActorView view = mesh.registry().view(cell.id());
    rows.push_back({{"cell", place_json(places.grid.coord(places.places[*each]), false)},
                    {"value", static_cast<double>(values[*each])},
                    {"status", actors::name(view.status)},
                    {"faults", view.faults},
                    {"type", mesh.graph().layer_spec(last).type},
                    {"in", node.in},
                    {"out", node.width}});
  }
  return answer_of({{"tick", frame.tick}, {"cells", std::move(rows)}}, frame.tick, 0);
}

/// Takes a frame on the mesh's thread, and draws it on the connection's; 304 where the client has the one of that tick.
std::function<void(Call)> with_frame(NativeContext& context, Draw draw) {
  return [&context, draw](Call call) {
    const MeshPointer mesh = internal::find_mesh(context, call);
    if (!mesh) return;
    auto query = read_cell_query(call.request(), mesh->description());
    if (!query) return call.exchange->respond(unreadable(query.error()));
    // Faults and statuses change between ticks.
    const bool is_of_tick = query->metric == CellMetric::activity || query->metric == CellMetric::value;
    std::string known(is_of_tick ? call.request().header("if-none-match") : std::string_view());
    mesh->submit(call.exchange,
                 [query = *std::move(query), draw, mesh, is_of_tick,
                  known = std::move(known)](LiveMesh& live) -> Result<ServedMesh::Answer> {
                   std::size_t lane = 0;
                   if (!query.session.empty()) {
                     WEFT_TRY(lane, live.lane_of(query.session));
                   }
                   CellFrames& frames = mesh->cell_frames();
                   WEFT_TRY(const auto frame, frames.take(live.mesh(), lane, mesh->time_to_spare()));
                   // It lasts as long as its served mesh, which the answer holds.
                   const std::string tag = "\"" + std::to_string(frame->tick) + "\"";
                   return ServedMesh::Answer{
                       [query, draw, frame, places = frames.places(), mesh, &live, &frames, tag, is_of_tick,
                        is_known = tag == known, version = live.state().weight_version] {
                         HttpResponse response;
                         const std::shared_lock stays(frames.place());
                         if (is_known)
                           response.status = 304;
                         else
                           response = draw(query, *places, *frame, live.mesh());
                         response.headers = answer_of(Json(), frame->tick, version).headers;
                         if (is_of_tick) response.headers.push_back({"ETag", tag});
                         return response;
                       },
                       false};
                 });
  };
}

// --- one cell

Json links_json(const mesh::Graph& graph, const std::vector<std::uint32_t>& edges, bool of_sources) {
  Json links = Json::array();
  for (std::size_t i = 0; i < std::min(edges.size(), kMostLinks); ++i) {
    const mesh::Edge& edge = graph.edges()[edges[i]];
    const mesh::Node& other = graph.nodes()[of_sources ? edge.from : edge.to];
    links.push_back(other.is_port() ? Json(other.port) : place_json(other.at, true));
  }
  return links;
}

Json layer_json(const mesh::Mesh& mesh, mesh::NodeId id) {
  const mesh::Graph& graph = mesh.graph();
  const mesh::Node& node = graph.nodes()[id];
  return {{"at", place_json(node.at, true)},
          {"type", graph.layer_spec(id).type},
          {"in", node.in},
          {"out", node.width},
          {"dtype", weft::name(mesh::MeshAccess::weights(mesh).encoding(id).dtype)},
          {"sources", node.sources.size()},
          {"readers", node.readers.size()},
          {"from", links_json(graph, node.sources, true)},
          {"to", links_json(graph, node.readers, false)}};
}

Json cell_json(const mesh::Mesh& mesh, const mesh::Cell& cell) {
  const actors::ActorView view = mesh.registry().view(cell.id());
  Json layers = Json::array();
  for (std::uint32_t l = 0; l < cell.layers(); ++l) layers.push_back(layer_json(mesh, cell.first() + l));
  return {{"cell", place_json(cell.at(), false)},
          {"tick", mesh.ticks()},
          {"status", actors::name(view.status)},
          {"enabled", cell.is_enabled()},
          {"period", cell.period()},
          {"faults", view.faults},
          {"restarts", view.restarts},
          {"last_fault_tick", view.faults > 0 ? Json(view.last_fault_tick) : Json()},
          {"messages", view.messages},
          {"layers", std::move(layers)}};
}

/// The cell of "0,1,2" and the first outputs of its last layer.
Result<std::string> describe_cell(const mesh::Mesh& mesh, const std::string& text, std::size_t lane) {
  WEFT_TRY(const auto place, agent::read_place(text));
  if (!place) return fail(Errc::invalid_argument, "cell '" + text + "': give one as z,y,x");
  for (const auto& cell : mesh::MeshAccess::cells(mesh)) {
    const Coord at = cell->at();
    if (at.z != place->at.z || at.y != place->at.y || at.x != place->at.x) continue;
    const mesh::Node& last = mesh.graph().nodes()[cell->first() + cell->layers() - 1];
    WEFT_TRY(const auto outputs, mesh.output(last.at, lane));
    std::string body = cell_json(mesh, *cell).dump(Json::Order::as_set);
    body.back() = ',';  // in place of the closing brace
    body += "\"outputs\":";
    append_rows(body, outputs.first(std::min(outputs.size(), kMostOutputs)), 1, false);
    return body + "}";
  }
  return fail(Errc::not_found, "cell '" + text + "': there is none at this place");
}

Result<ServedMesh::Act> prepare_cell(const Call& call, const ServedMesh& mesh) {
  WEFT_TRY(const CellQuery query, read_cell_query(call.request(), mesh.description()));
  return ServedMesh::Act(
      [text = call.parameter(1), session = query.session](LiveMesh& live) -> Result<ServedMesh::Answer> {
        std::size_t lane = 0;
        if (!session.empty()) {
          WEFT_TRY(lane, live.lane_of(session));
        }
        WEFT_TRY(std::string body, describe_cell(live.mesh(), text, lane));
        return ServedMesh::Answer{[body, tick = live.mesh().ticks(), version = live.state().weight_version] {
                                    HttpResponse response = answer_of(Json(), tick, version);
                                    response.body = body;
                                    return response;
                                  },
                                  false};
      });
}

}  // namespace

void add_cell_routes(Router& router, NativeContext& context) {
  const std::string mesh = "/api/v1/meshes/{mesh}";
  using Body = Route::Body;
  router.add({"GET", mesh + "/heatmap", Body::none, false, true, with_frame(context, heat_map_response)});
  router.add({"GET", mesh + "/cells", Body::none, false, true, with_frame(context, list_response)});
  router.add({"GET", mesh + "/cells/{cell}", Body::none, false, true, internal::on_mesh(context, prepare_cell)});
}

}  // namespace weft::server
