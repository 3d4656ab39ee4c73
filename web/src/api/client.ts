// Asks the service. Types come from its OpenAPI document (schema.ts, generated); errors are its problem+json.
import type { components } from "./schema";

type Schemas = components["schemas"];
export type Study = Schemas["Study"];
export type Trial = Schemas["Trial"];
export type Measurement = Schemas["Measurement"];
export type Curves = Schemas["Curves"];
export type Parallel = Schemas["Parallel"];
export type WidthPoint = Schemas["WidthPoint"];
export type Explain = Schemas["Explain"];
export type LogLine = Schemas["LogLine"];
export type Cluster = Schemas["Cluster"];
export type Occupant = Schemas["Occupant"];
export type TrialState = Schemas["TrialState"];
export type StudyState = Schemas["StudyState"];

export interface Page<T> {
  items: T[];
  next_page_token?: string | null;
}

export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
    readonly code: string,
  ) {
    super(`${title}: ${detail}`);
  }
}

async function ask(path: string, init?: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`/api/v1${path}`, { credentials: "same-origin", ...init });
  } catch (error) {
    if (init?.signal?.aborted) throw error;
    throw new Failure(0, "The service does not answer", "It is down or out of reach; the page asks again by itself.", "unreachable");
  }
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as Partial<Schemas["Problem"]>;
  throw new Failure(
    response.status,
    problem.title ?? `The service answered ${response.status}`,
    problem.detail ?? response.statusText,
    problem.code ?? "unknown",
  );
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await ask(path, { signal })).json()) as T;
}

export async function post(path: string, body?: unknown): Promise<void> {
  await ask(path, {
    method: "POST",
    headers: body === undefined ? {} : { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
}
