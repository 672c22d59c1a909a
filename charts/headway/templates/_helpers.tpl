{{- define "headway.labels" -}}
app.kubernetes.io/name: headway
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "headway.selector" -}}
app.kubernetes.io/name: headway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headway.account" -}}
system:serviceaccount:{{ include "headway.system" . }}:headway
{{- end }}

{{/* Of what is of no namespace: two releases, each for a namespace, have their own. */}}
{{- define "headway.own" -}}
headway{{ if ne .Values.watchNamespace "all" }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{/* Where Headway itself runs: with one namespace to watch, inside it. */}}
{{- define "headway.system" -}}
{{- .Release.Namespace -}}
{{- end }}

{{- define "headway.image" -}}
"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end }}

{{/* The restricted standard, of pods and of containers. */}}
{{- define "headway.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "headway.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}
