/* SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <string.h>
#include <weft.h>

/* agent DIRECTORY: a mesh that learns one sample and goes on where it was the next time. */

static const char* const network_file =
    "{\"weft\": 2, \"inputs\": {\"bits\": [2]}, \"chain\": [{\"type\": \"dense\", \"out\": 2}],"
    " \"learning\": {\"optimizer\": {\"lr\": 0.05}}}";

static int failed(void) {
  fprintf(stderr, "%s\n", weft_last_error()->message);
  return 1;
}

int main(int count, char** words) {
  static const float bits[2] = {1, 0};
  weft_network* network;
  weft_agent* agent;
  weft_mesh* mesh;
  weft_learner* learner;
  weft_learner_counts counts = {sizeof(weft_learner_counts)};
  char hash[33];

  if (count != 2) return 2;
  if (weft_network_read(network_file, strlen(network_file), "agent", &network) ||
      weft_agent_open(words[1], network, NULL, &agent) || weft_agent_mesh(agent, &mesh) ||
      weft_agent_learner(agent, &learner))
    return failed();
  if (weft_learner_learn_one(learner, bits, 2, 1) ||
      weft_agent_acknowledge(agent)) /* it survives kill -9 from here on */
    return failed();
  if (weft_learner_count(learner, &counts) || weft_mesh_state_hash(mesh, 0, hash, sizeof hash, NULL)) return failed();
  printf("%lu samples, state %s\n", (unsigned long)counts.samples, hash);
  weft_learner_destroy(learner);
  weft_mesh_destroy(mesh);
  weft_network_destroy(network);
  return weft_agent_close(agent);
}
