// Asks the service. Types come from its OpenAPI document (schema.ts, generated); errors are its problem+json.
import { service } from "../live/service.svelte";
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
export type Parameter = Schemas["Parameter"];
export type Device = Schemas["Device"];
export type StudyWidths = Schemas["StudyWidths"];
export type TrialWidths = Schemas["TrialWidths"];
export type PlanPage = Schemas["PlanPage"];
export type LoginLink = Schemas["LoginLink"];

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
    service.silent();
    throw new Failure(0, "The service does not answer", "It is down or out of reach; the page asks again by itself.", "unreachable");
  }
  service.answered(response.status, response.headers.get("date"));
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
  return JSON.parse(await getText(path, signal)) as T;
}

/** The answer as it came, to be compared with the one before. */
export async function getText(path: string, signal?: AbortSignal): Promise<string> {
  try {
    return await (await ask(path, { signal })).text();
  } catch (error) {
    if (error instanceof Failure || signal?.aborted) throw error;
    // The connection broke within the answer.
    service.silent();
    throw new Failure(0, "The service does not answer", "It broke off within an answer; the page asks again by itself.", "unreachable");
  }
}

export async function post<T = void>(path: string, token?: string): Promise<T> {
  const headers: HeadersInit = token ? { authorization: `Bearer ${token}` } : {};
  const text = await (await ask(path, { method: "POST", headers })).text();
  return (text ? JSON.parse(text) : undefined) as T;
}
